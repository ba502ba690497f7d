package provider

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/wellformed"
)

// NewServer is the provider as Terraform talks to it. Each call makes another one.
// It answers lists and actions, too.
func NewServer(version string) (tfprotov6.ProviderServer, error) {
	made, err := providerserver.NewProtocol6WithError(New(version)())()
	if err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	full, ok := made.(wellformed.Provider)
	if !ok {
		return nil, fmt.Errorf("start the provider: its server %T has no lists or actions", made)
	}
	return wellformed.Guard(full), nil
}
