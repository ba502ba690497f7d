// Package crud is the life that resources have in common: creating, reading,
// updating, deleting and importing an object of the hub, with the mark that
// tells whose it is. It knows no kind of object.
package crud
