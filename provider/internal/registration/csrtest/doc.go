// Package csrtest makes certificate requests for tests.
package csrtest
