// Package inspect reads from an object what is reported of it: values of its
// status (feedback), conditions by rules, and how far it has progressed. It keeps
// the time that works with costly rules take small.
//
// In go objects, out come values. It sends no requests.
package inspect
