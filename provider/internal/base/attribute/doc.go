// Package attribute holds what the schemas of the provider's resources and data
// sources share: builders of attributes, validators, identities, and the way
// between Go's values and Terraform's. It knows no hub and makes no request.
package attribute
