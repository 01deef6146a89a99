package gchat

import "fmt"

// maxPages is how many pages of a list are read at once. Google's have up to 1,000 rows.
const maxPages = 50

// ErrEndlessList says that a list has more than maxPages pages, or names its next page as
// the last one did. What its pages held was handed over.
var ErrEndlessList = fmt.Errorf("%w: the pages of a list have no end", ErrBadResponse)

// LimitPages hands a list's pages to take, for as long as ErrEndlessList allows. It is
// what each list of Google's is read with; token is where its next page is named.
func LimitPages[T any](nextToken func(T) string, handlePage func(T)) func(T) error {
	pages, lastToken := 0, ""
	return func(page T) error {
		handlePage(page)
		pages++
		next := nextToken(page)
		if next != "" && (next == lastToken || pages == maxPages) {
			return ErrEndlessList
		}
		lastToken = next
		return nil
	}
}
