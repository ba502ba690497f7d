// Package crud is the life that resources have in common: creating, reading,
// updating, deleting, importing and listing an object of the hub, with the mark
// that tells whose it is, and what deleting it takes when its cluster is gone for
// good. It knows no kind of resource.
package crud
