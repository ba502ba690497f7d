// Command benchprovider measures what the provider costs beside Terraform itself:
// many objects are created, planned, updated and destroyed by a real Terraform
// against a real hub, and the same is done with a provider that does nothing (its
// folder noop), in turns. It prints the ratios, the requests that reached the
// hub, and the size of the state.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
)

// options are what the command line says.
type options struct {
	muster, provider, noop, terraform string
	objects, works, rounds            int
}

func main() {
	var o options
	flag.StringVar(&o.muster, "muster", "bin/muster", "the program of the hub")
	flag.StringVar(&o.provider, "provider", "bin/terraform-provider-muster", "the provider to measure")
	flag.StringVar(&o.noop, "noop", "bin/terraform-provider-noop", "the provider that does nothing")
	flag.StringVar(&o.terraform, "terraform", "terraform", "the Terraform or OpenTofu to measure with")
	flag.IntVar(&o.objects, "objects", 500, "how many cluster sets; 0 leaves them out")
	flag.IntVar(&o.works, "works", 100, "how many manifest works; 0 leaves them out")
	flag.IntVar(&o.rounds, "rounds", 3, "how often everything is measured; the medians count")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "muster-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, program := range []*string{&o.muster, &o.provider, &o.noop} {
		if *program, err = filepath.Abs(*program); err != nil {
			return err
		}
		if _, err := os.Stat(*program); err != nil {
			return fmt.Errorf("find the programs: %w: run \"make bench-provider\", which builds them", err)
		}
	}
	hub, err := testhub.StartHub(o.muster, filepath.Join(dir, "hub"))
	if err != nil {
		return err
	}
	defer func() { _ = hub.Stop() }()
	proxy, err := newProxy(hub.Kubeconfig)
	if err != nil {
		return err
	}
	defer proxy.close()
	tf, err := newTerraform(ctx, o, dir, hub.Kubeconfig)
	if err != nil {
		return err
	}
	tf.hub = hub.PID()
	fmt.Printf("%s, median of %d rounds\n", tf.version, o.rounds)
	for _, w := range []workload{clusterSets(o.objects), manifestWorks(o.works)} {
		if w.objects == 0 {
			continue
		}
		if w.cluster != "" {
			if err := proxy.acceptCluster(ctx, w.cluster); err != nil {
				return err
			}
		}
		result, err := w.measure(ctx, tf, proxy, o.rounds)
		if err != nil {
			return err
		}
		result.print(os.Stdout)
	}
	return nil
}

// workload is a kind of object, many times.
type workload struct {
	what    string
	objects int
	// resource is the resource's name without the provider's, and body its HCL; the
	// variable "text" in it is changed by the update.
	resource, body string
	// cluster is a managed cluster that has to be accepted first; "" is none.
	cluster string
}

func clusterSets(objects int) workload {
	return workload{what: "cluster sets", objects: objects, resource: "managed_cluster_set", body: `
  name   = "bench-${count.index}"
  labels = { bench = var.text }
`}
}

func manifestWorks(objects int) workload {
	return workload{what: "manifest works", objects: objects, resource: "manifest_work", cluster: "bench", body: `
  managed_cluster = "bench"
  name            = "bench-${count.index}"
  objects = [{
    apiVersion = "v1", kind = "ConfigMap"
    metadata = { name = "bench-${count.index}", namespace = "default" }
    data = { text = var.text }
  }]
`}
}

// config is the workload as the configuration of a provider.
func (w workload) config(provider string) string {
	return fmt.Sprintf(`terraform {
  required_providers {
    %[1]s = { source = "muster-fleet/%[1]s" }
  }
}

variable "text" { type = string }

resource "%[1]s_%[2]s" "bench" {
  count = %[3]d
%[4]s
}
`, provider, w.resource, w.objects, strings.Trim(w.body, "\n"))
}
