package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kind/pkg/cluster"
	kindexec "sigs.k8s.io/kind/pkg/exec"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
)

const (
	// KindImageEnv names the environment variable with the node image to use
	// instead of kind's default.
	KindImageEnv = "MUSTER_KIND_IMAGE"
	// KindConfigEnv names the environment variable with the path of the kind
	// configuration to use instead of ours.
	KindConfigEnv = "MUSTER_KIND_CONFIG"

	kindReadyTimeout = 3 * time.Minute

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

// KindUnavailableError is the error that no cluster can be made with kind on this
// machine, whoever tries.
type KindUnavailableError struct {
	// Reason tells what is missing and how to get it.
	Reason string
}

func (e *KindUnavailableError) Error() string {
	return "kind cannot make clusters here: " + e.Reason
}

// kindProvider is what is used of kind.
type kindProvider interface {
	Create(name string, options ...cluster.CreateOption) error
	Delete(name, explicitKubeconfigPath string) error
	List() ([]string, error)
	KubeConfig(name string, internal bool) (string, error)
}

// Kind is the driver of clusters in containers. Their agents run in pods, so
// the hub must listen on an address that containers reach, and its kubeconfigs
// must name it: HubBindAddress and HubExternalURL.
type Kind struct {
	provider kindProvider
	dir      string
	prefix   string
}

// NewKind is a driver for the clusters of one fleet, with their kubeconfigs
// below dir. It fails with a *KindUnavailableError where no container engine
// answers.
func NewKind(dir string) (*Kind, error) {
	option, err := cluster.DetectNodeProvider()
	if errors.Is(err, cluster.NoNodeProviderDetectedError) {
		return nil, &KindUnavailableError{"there is no docker, podman or nerdctl: install one, or use --driver devcluster"}
	}
	if err != nil {
		return nil, &KindUnavailableError{fmt.Sprintf("looking for a container engine: %v: mend that, or use --driver devcluster", err)}
	}
	k := newKind(cluster.NewProvider(option), dir)
	// That there is a client does not mean that its engine answers.
	if _, err := k.provider.List(); err != nil {
		return nil, &KindUnavailableError{fmt.Sprintf("the container engine does not answer: %s: start it, or use --driver devcluster", engineOutput(err))}
	}
	return k, nil
}

func newKind(provider kindProvider, dir string) *Kind {
	// Names are shared by all that use the engine, so they tell the fleet.
	sum := sha256.Sum256([]byte(dir))
	return &Kind{provider: provider, dir: dir, prefix: "muster-" + hex.EncodeToString(sum[:3]) + "-"}
}

// ClusterName is what kind calls the cluster of that name.
func (k *Kind) ClusterName(name string) string { return k.prefix + name }

// Start makes the cluster, or writes the kubeconfig of the one that is there.
func (k *Kind) Start(_ context.Context, name string) (Member, error) {
	m := Member{Name: name, Kubeconfig: kubeconfigOf(filepath.Join(k.dir, name))}
	existing, err := k.provider.List()
	if err != nil {
		return m, fmt.Errorf("%s: list the clusters of kind: %s", name, engineOutput(err))
	}
	m.Found = slices.Contains(existing, k.ClusterName(name))
	if !m.Found {
		if err := k.create(name, m.Kubeconfig); err != nil {
			return m, err
		}
	}
	content, err := k.provider.KubeConfig(k.ClusterName(name), false)
	if err != nil {
		return m, fmt.Errorf("%s: read its kubeconfig: %s: if it does not run, remove it with `kind delete cluster --name %s`", name, engineOutput(err), k.ClusterName(name))
	}
	if err := os.MkdirAll(filepath.Dir(m.Kubeconfig), 0o700); err != nil {
		return m, err
	}
	if err := datadir.WriteFile(m.Kubeconfig, []byte(content), 0o600); err != nil {
		return m, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(content))
	if err != nil {
		return m, fmt.Errorf("%s: kind's kubeconfig: %w", name, err)
	}
	m.URL = config.Host
	return m, nil
}

func (k *Kind) create(name, kubeconfig string) error {
	if err := os.MkdirAll(filepath.Dir(kubeconfig), 0o700); err != nil {
		return err
	}
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
		return &KindUnavailableError{fmt.Sprintf("the node image is not on this machine and cannot be pulled: %s: load one and name it with %s", engineOutput(err), KindImageEnv)}
	}
	if err != nil {
		return fmt.Errorf("%s: kind cannot make the cluster: %s", name, engineOutput(err))
	}
	return nil
}

// Stop removes the cluster: one in containers does not come back with its data.
func (k *Kind) Stop(_ context.Context, name string) error {
	kubeconfig := kubeconfigOf(filepath.Join(k.dir, name))
	if err := k.provider.Delete(k.ClusterName(name), kubeconfig); err != nil {
		return fmt.Errorf("%s: kind cannot delete the cluster: %s", name, engineOutput(err))
	}
	if err := os.Remove(kubeconfig); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// List names the fleet's clusters.
func (k *Kind) List(context.Context) ([]string, error) {
	all, err := k.provider.List()
	if err != nil {
		return nil, fmt.Errorf("list the clusters of kind: %s", engineOutput(err))
	}
	var names []string
	for _, kindName := range all {
		if name, ok := strings.CutPrefix(kindName, k.prefix); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// engineOutput is an error of kind in one line, with what the container engine
// said about it.
func engineOutput(err error) string {
	text := err.Error()
	var run *kindexec.RunError
	if errors.As(err, &run) && len(run.Output) > 0 {
		text += ": " + string(run.Output)
	}
	return strings.Join(strings.Fields(text), " ")
}
