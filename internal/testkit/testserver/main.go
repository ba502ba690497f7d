// Command testserver runs the control plane of a package's tests, so that only this
// program links it, and not the tests. It has the kinds of the wire, and no
// controllers but those of every control plane. Package testenv starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/gctuner"
	"github.com/muster-fleet/terraform-provider-muster/internal/lifeline"
	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/conversion"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
	"github.com/muster-fleet/terraform-provider-muster/runtime/definitions"
)

// options are what testenv asks for.
type options struct {
	dataDir        string
	port           int
	managedCluster bool
	externalSigner bool
	gated          []kinds.Server
}

func main() {
	var o options
	flags := flag.NewFlagSet("testserver controlplane", flag.ExitOnError)
	flags.StringVar(&o.dataDir, "data-dir", "", "folder that keeps the state")
	flags.IntVar(&o.port, "secure-port", 0, "port to listen on; 0 takes a free one")
	flags.BoolVar(&o.managedCluster, "managed-cluster", false,
		"serve the ordinary APIs of a cluster, and what agents need there")
	flags.BoolVar(&o.externalSigner, "external-signer", false, "leave the signing of certificate requests to the tests")
	flags.Func("gated", "serve the kinds of a feature gate, too; may be repeated", func(server string) error {
		o.gated = append(o.gated, kinds.Server(server))
		return nil
	})
	_ = flags.Parse(os.Args[2:])

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	ctx, remove := lifeline.Follow(ctx)
	err := errors.Join(run(ctx, o), remove())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and says when it is ready.
func run(ctx context.Context, o options) error {
	logging.Setup(ctx, os.Stderr, 0, false)
	go gctuner.Run(ctx, clock.RealClock{}, nil)
	dir, err := datadir.Open(o.dataDir, "testserver")
	if err != nil {
		return err
	}
	defer dir.Close()
	server, err := controlplane.Start(ctx, o.controlPlane(dir))
	if err != nil {
		return err
	}
	controllersCtx, stopControllers := context.WithCancel(ctx)
	controllers := make(chan error, 1)
	go func() {
		controllers <- server.RunControllers(controllersCtx, controlplane.ControllerOptions{
			PlainNamespaces: "!" + cluster.NameLabel, ExternalSigner: o.externalSigner,
		})
	}()
	if err = o.prepare(ctx, server); err == nil {
		fmt.Printf("cluster ready %s kubeconfig %s\n", server.URL, server.Kubeconfig)
		<-ctx.Done()
	}
	stopControllers()
	return errors.Join(err, <-controllers, server.Stop())
}

func (o options) controlPlane(dir *datadir.Dir) controlplane.Options {
	c := controlplane.Options{
		Name: "muster-test", Dir: dir, SecurePort: o.port,
		Conversions: []controlplane.Conversion{{
			Namespace: cluster.HubNamespace, Service: addon.ConversionService, Convert: conversion.Convert,
		}},
	}
	if o.managedCluster {
		c.Flavour = controlplane.Full
	}
	return c
}

// prepare installs the definitions of a hub, those of its gates, and those of a managed
// cluster where the server is both.
func (o options) prepare(ctx context.Context, server *controlplane.Server) error {
	if err := server.WaitReady(ctx); err != nil {
		return err
	}
	served, err := crds.Hub()
	add := func(more []*apiextensionsv1.CustomResourceDefinition, failed error) {
		served, err = append(served, more...), errors.Join(err, failed)
	}
	if o.managedCluster {
		add(crds.ManagedCluster())
	}
	for _, gate := range o.gated {
		add(crds.Gated(gate))
	}
	if err != nil {
		return err
	}
	return definitions.Install(ctx, server.RESTConfig("muster-test"), served)
}
