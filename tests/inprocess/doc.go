// Package inprocess plans and applies configurations as Terraform does, in the process
// of a test: it speaks Terraform's protocol with the provider, and starts no program. It
// checks of a provider what Terraform checks: that a plan keeps to the configuration,
// that an apply keeps to the plan and leaves nothing unknown, and that a plan after an
// apply is empty.
//
// Test does the steps of the plugin testing framework. Workspace has a user's commands.
// Both refuse what they can't do, such as modules and ephemeral resources: tests of that
// use a real Terraform.
package inprocess
