// Package acctest is for the acceptance tests of the provider: a hub and a dev
// cluster that the tests of a package share, Terraform, and a client that acts
// beside it. It runs the whole provider, so that only external tests (package
// x_test) can use it.
package acctest
