package gchat

import "fmt"

// maxPages is how many pages of a list are read in one call. A page of Google's has up to
// 1,000 rows.
const maxPages = 50

// ErrEndlessList means that a list has maxPages pages and another one, or that a page
// names the same next page as the page before it. The caller got all pages up to that
// one.
var ErrEndlessList = fmt.Errorf("%w: the pages of a list have no end", ErrBadResponse)

// LimitPages wraps handlePage for the Pages method of Google's client library, so that a
// list has an end: it returns ErrEndlessList after too many pages. nextToken returns the
// token with which a page names the next one. Every list of Google's is read through it.
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
