// Package decide decides what to do about a work: from what is known of the work,
// its manifests and their objects it makes a plan. It also decides when the
// objects of a work that the hub no longer has are evicted.
//
// It is pure: values in, values out, the time included. It sends no requests. The
// package also holds the cache of what earlier passes led to, so that no request
// is sent whose answer is known. The cache may be lost at any time: what must not
// be lost is in the AppliedManifestWorks.
package decide
