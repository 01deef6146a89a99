package gchat

import "fmt"

// mostPages is how many pages of a list are read at once. Google's have up to 1,000 rows.
const mostPages = 50

// ErrEndless says that a list has more than mostPages pages, or names its next page as
// the last one did. What its pages held was handed over.
var ErrEndless = fmt.Errorf("%w: the pages of a list have no end", ErrNonsense)

// BoundPages hands a list's pages to take, for as long as ErrEndless allows. It is what
// each list of Google's is read with; token is where its next page is named.
func BoundPages[T any](token func(T) string, take func(T)) func(T) error {
	pages, last := 0, ""
	return func(page T) error {
		take(page)
		pages++
		next := token(page)
		if next != "" && (next == last || pages == mostPages) {
			return ErrEndless
		}
		last = next
		return nil
	}
}
