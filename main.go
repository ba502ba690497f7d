// Command terraform-provider-muster is the Terraform provider for fleets of
// Kubernetes clusters. Terraform starts it; people do not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/muster-fleet/terraform-provider-muster/internal/gctuner"
	"github.com/muster-fleet/terraform-provider-muster/internal/pluginlog"
	"github.com/muster-fleet/terraform-provider-muster/internal/tracing"
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

	if err := serve(*debug); err != nil {
		fmt.Fprintf(os.Stderr, "serving the provider: %v\n", err)
		os.Exit(1)
	}
}

func serve(debug bool) error {
	stderr := os.Stderr // Terraform's log; while the provider is served, there is another one in its place
	warn := func(problem string) { _, _ = fmt.Fprintln(stderr, "[WARN] "+problem) }
	server, err := provider.NewServer(version.Version())
	if err != nil {
		return err
	}
	traces, err := tracing.FromEnvironment(os.Getenv, tracing.Service{
		Name: "terraform-provider-muster", Version: version.Version(), Warn: warn,
	})
	if err != nil {
		warn("there are no traces: " + err.Error()) // That is no reason to fail an apply.
	}
	defer traces.Close()
	server = provider.Traced(server, traces)
	var options []tf6server.ServeOpt
	if debug {
		options = append(options, tf6server.WithManagedDebug())
	}
	return tf6server.Serve(provider.Address, func() tfprotov6.ProviderServer { return server }, options...)
}
