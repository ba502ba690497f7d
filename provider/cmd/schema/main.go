// Command schema prints the provider's schema as `terraform providers schema -json`
// does, for the documents that are made from it. A Terraform prints only what it
// knows itself: list resources and actions are missing with an older one and with
// OpenTofu.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/muster-fleet/terraform-provider-muster/provider"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "printing the provider's schema: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	server, err := provider.NewServer("docs")
	if err != nil {
		return err
	}
	schemas, err := schemasOf(ctx, server)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(schemas)
}
