// Package memory is what the agent remembers of the works between two looks at
// them, so that it sends no request whose answer it knows. All of it may be lost
// at any time: what must not be lost is in the AppliedManifestWorks.
package memory
