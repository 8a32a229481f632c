package web

import "slices"

// Languages are those of the pages, the default first.
func Languages() []string { return slices.Clone(pageLanguages) }
