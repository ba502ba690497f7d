package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/kind/pkg/cluster"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
)

const (
	// KindImageEnv names the environment variable with the node image to use
	// instead of kind's default.
	KindImageEnv = "MUSTER_KIND_IMAGE"
	// KindConfigEnv names the environment variable with the path of the kind
	// configuration to use instead of ours.
	KindConfigEnv = "MUSTER_KIND_CONFIG"

	kindReadyTimeout = 3 * time.Minute

	// cleanTimeout is how long the removal of a half-made cluster may take when the
	// program ends.
	cleanTimeout = 10 * time.Second

	// makingFile is there while a cluster is being made. Where it is left, the
	// cluster is not whole.
	makingFile = "making"

	// kindConfig lets kubelets run on hosts with version 1 of control groups,
	// which they refuse by default.
	kindConfig = `kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
kubeadmConfigPatches:
- |
  kind: KubeletConfiguration
  failCgroupV1: false
`
)

// making is the file that is there while a cluster is being made.
func (k *Kind) making(name string) string { return filepath.Join(k.dir, name, makingFile) }

// build makes a cluster. As kind's own code takes no notice of ctx, a cluster that
// is half made when ctx ends is removed.
func (k *Kind) build(ctx context.Context, name, kubeconfig string) error {
	if err := os.MkdirAll(filepath.Dir(kubeconfig), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(k.making(name), nil, 0o600); err != nil {
		return err
	}
	made := make(chan error, 1)
	go func() { made <- k.create(name, kubeconfig) }()
	select {
	case err := <-made:
		if err != nil {
			return err
		}
		return os.Remove(k.making(name))
	case <-ctx.Done():
	}
	removed := make(chan struct{})
	go func() {
		_ = k.provider.Delete(k.ClusterName(name), kubeconfig) // what is left, the next start finds not whole
		close(removed)
	}()
	select {
	case <-removed:
	case <-time.After(cleanTimeout):
	}
	return fmt.Errorf("%s: its making was cut short: run muster up to make it again, or muster down to remove what is left: %w",
		name, context.Cause(ctx))
}

// create has kind make a cluster.
func (k *Kind) create(name, kubeconfig string) error {
	config := []byte(kindConfig)
	if path := os.Getenv(KindConfigEnv); path != "" {
		var err error
		if config, err = os.ReadFile(path); err != nil {
			return fmt.Errorf("%s: the kind configuration that %s names: %w", name, KindConfigEnv, err)
		}
	}
	options := []cluster.CreateOption{
		cluster.CreateWithRawConfig(config),
		cluster.CreateWithKubeconfigPath(kubeconfig),
		cluster.CreateWithWaitForReady(kindReadyTimeout),
		cluster.CreateWithDisplayUsage(false),
		cluster.CreateWithDisplaySalutation(false),
	}
	if image := os.Getenv(KindImageEnv); image != "" {
		options = append(options, cluster.CreateWithNodeImage(image))
	}
	err := k.provider.Create(k.ClusterName(name), options...)
	if err != nil && strings.Contains(err.Error(), "failed to pull image") {
		return &KindUnavailableError{fmt.Sprintf("the node image is not on this machine and cannot be pulled: %s: load one and name it with %s",
			engineOutput(err), KindImageEnv)}
	}
	if err != nil {
		return fmt.Errorf("%s: kind cannot make the cluster: %s", name, engineOutput(err))
	}
	return nil
}
