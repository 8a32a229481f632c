package v1

// Page is one page of a list, and the cursor of the next page, null on the last one.
type Page[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next_cursor"`
}

// PageOf returns a page; next is empty on the last one.
func PageOf[T any](items []T, next string) Page[T] { return Page[T]{items, orNull(next)} }

// List is a whole list.
type List[T any] struct {
	Items []T `json:"items"`
}

// ListOf returns a list.
func ListOf[T any](items []T) List[T] { return List[T]{items} }
