// Package function has the provider's functions: pure computations on values of a
// configuration, without a hub. Each is a thin cover over the package that does the
// same for a resource.
package function
