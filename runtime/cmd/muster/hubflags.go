package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
)

// hubFlags say which hub a command talks to.
type hubFlags struct {
	dataDir, kubeconfig, context string
}

func (f *hubFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dataDir, "data-dir", fleetDir, "data directory of \"muster up\"")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the hub, instead of the one in the data directory")
	cmd.Flags().StringVar(&f.context, "context", "", "context of the kubeconfig, instead of its current one")
}

// path is the kubeconfig of the hub, which exists.
func (f *hubFlags) path() (string, error) {
	path := f.kubeconfig
	if path == "" {
		path = fleet.HubKubeconfig(f.dataDir)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("there is no kubeconfig %s: "+
			"start a hub with \"muster up\", or name its kubeconfig with --kubeconfig", path)
	}
	return path, nil
}

// absolute is path from the root, for what outlives the command's working directory.
func (f *hubFlags) absolute() (string, error) {
	path, err := f.path()
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", fmt.Errorf("find the kubeconfig: %w", err)
	}
	return path, nil
}

// provider is the provider's configuration for the hub.
func (f *hubFlags) provider() (map[string]string, error) {
	path, err := f.absolute()
	if err != nil {
		return nil, err
	}
	config := map[string]string{"kubeconfig_path": path}
	if f.context != "" {
		config["context"] = f.context
	}
	return config, nil
}

// client reaches the hub with the rights of its kubeconfig.
func (f *hubFlags) client() (client.Client, error) {
	path, err := f.path()
	if err != nil {
		return nil, err
	}
	config, err := f.config(path)
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
}

// config is the context of the kubeconfig at path that the flags choose.
func (f *hubFlags) config(path string) (*rest.Config, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: path},
		&clientcmd.ConfigOverrides{CurrentContext: f.context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w", path, err)
	}
	return config, nil
}
