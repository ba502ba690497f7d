// Package team tests a module that uses the provider, with Go's own tests: as
// terraform test does, and with all that Go has, such as a client of the hub.
//
// In a module of Go of your own, require this provider's module and
// github.com/hashicorp/terraform-plugin-testing. TF_ACC=1 go test then starts the
// hub; Terraform is the one on the PATH.
package team
