package provider

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// fullServer is all that the provider's server does.
type fullServer interface {
	tfprotov6.ProviderServer
	tfprotov6.ListResourceServer
	tfprotov6.ActionServer
}

// NewServer is the provider as Terraform talks to it. Each call makes another one.
// It answers lists and actions, too.
func NewServer(version string) (tfprotov6.ProviderServer, error) {
	made, err := providerserver.NewProtocol6WithError(New(version)())()
	if err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	full, ok := made.(fullServer)
	if !ok {
		return nil, fmt.Errorf("start the provider: its server %T has no lists or actions", made)
	}
	return &guard{fullServer: full}, nil
}
