// Package docs contains the guides for people who run and use CodeHub, in English and Korean. Its tests check them
// against the product: links, commands, configurations, and the languages against each other. It has no other code and
// must not be imported.
package docs
