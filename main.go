// Command terraform-provider-muster is the Terraform provider for fleets of
// Kubernetes clusters. Terraform starts it; people do not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/muster-fleet/terraform-provider-muster/internal/gctuner"
	"github.com/muster-fleet/terraform-provider-muster/internal/pluginlog"
	"github.com/muster-fleet/terraform-provider-muster/internal/version"
	"github.com/muster-fleet/terraform-provider-muster/provider"
)

// headroom is what may be allocated between two collections of garbage: a plan of
// some hundred objects allocates that several times over.
const headroom = 64 << 20

func main() {
	debug := flag.Bool("debug", false, "run as a stand-alone process that a debugger can attach to; prints how to point Terraform at it")
	flag.Parse()
	if !*debug {
		pluginlog.QuietUnlessAsked()
	}
	gctuner.Headroom(context.Background(), headroom)

	err := providerserver.Serve(context.Background(), provider.New(version.Version()), providerserver.ServeOpts{
		Address:         provider.Address,
		Debug:           *debug,
		ProtocolVersion: 6,
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "serving the provider: %v\n", err)
		os.Exit(1)
	}
}
