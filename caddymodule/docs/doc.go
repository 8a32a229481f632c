// Package docs is the guides for people who run and use CodeHub, in English and Korean. Its tests hold them
// against the product: links, commands, configurations, and each language against the other. There is no
// other code in it, and it must not be imported.
package docs
