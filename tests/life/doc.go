// Package life follows a cluster from its first certificate request to the day
// when it leaves.
package life
