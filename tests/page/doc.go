// Package page tests the hub's web page with a real browser and a real hub that has ten
// thousand clusters: that it is fast, that everybody can use it, and that nothing runs in it.
package page
