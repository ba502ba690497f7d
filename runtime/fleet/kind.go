package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/kind/pkg/cluster"
	kindexec "sigs.k8s.io/kind/pkg/exec"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
)

// foundTimeout is how long a cluster that is there may take to answer: a node
// that was stopped needs a quarter of a minute.
const foundTimeout = 2 * time.Minute

// KindUnavailableError is the error that no cluster can be made with kind on this
// machine, by any member.
type KindUnavailableError struct {
	// Reason says what is missing and how to get it.
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

// Kind is the driver of clusters in containers. Their agents run in pods, so the
// hub must listen on an address that containers reach: Gateway.
type Kind struct {
	provider kindProvider
	machines machines
	// answers returns once the API server of a kubeconfig does.
	answers func(ctx context.Context, kubeconfig string) (url string, err error)
	// image is put into each node; nil for none.
	image  *Image
	dir    string
	prefix string
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
		return nil, &KindUnavailableError{fmt.Sprintf("looking for a container engine: %v: repair that, or use --driver devcluster", err)}
	}
	provider := cluster.NewProvider(option)
	k := newKind(provider, kindMachines{provider}, dir)
	// That there is a client does not mean that its engine answers.
	if _, err := k.provider.List(); err != nil {
		return nil, &KindUnavailableError{fmt.Sprintf("the container engine does not answer: %s: start it, or use --driver devcluster",
			engineOutput(err))}
	}
	return k, nil
}

// UseImage makes Start put an image into each node, unless the node has it.
func (k *Kind) UseImage(image *Image) { k.image = image }

func newKind(provider kindProvider, machines machines, dir string) *Kind {
	// Names are shared by all that use the engine, so they contain that of the fleet.
	sum := sha256.Sum256([]byte(dir))
	return &Kind{provider: provider, machines: machines, answers: waitAnswers, dir: dir, prefix: "muster-" + hex.EncodeToString(sum[:3]) + "-"}
}

// ClusterName is what kind calls the cluster of that name.
func (k *Kind) ClusterName(name string) string { return k.prefix + name }

// Start makes the cluster, or makes the one that is there run, and puts the image
// into it. A cluster whose making was cut short is made again.
func (k *Kind) Start(ctx context.Context, name string) (Member, error) {
	m := Member{Name: name, Kubeconfig: kubeconfigOf(filepath.Join(k.dir, name))}
	existing, err := k.provider.List()
	if err != nil {
		return m, fmt.Errorf("%s: list the clusters of kind: %s", name, engineOutput(err))
	}
	m.Found = slices.Contains(existing, k.ClusterName(name))
	if _, err := os.Stat(k.making(name)); m.Found && err == nil {
		if err := k.Stop(ctx, name); err != nil {
			return m, fmt.Errorf("make it again, as its making was cut short: %w", err)
		}
		m.Found = false
	}
	if m.Found {
		m.Revived, err = k.revive(ctx, name)
	} else {
		err = k.build(ctx, name, m.Kubeconfig)
	}
	if err != nil {
		return m, err
	}
	content, err := k.provider.KubeConfig(k.ClusterName(name), false)
	if err != nil {
		return m, fmt.Errorf("%s: read its kubeconfig: %s: %s", name, engineOutput(err), k.removal(name))
	}
	if err := os.MkdirAll(filepath.Dir(m.Kubeconfig), 0o700); err != nil {
		return m, err
	}
	if err := atomicfile.Write(m.Kubeconfig, []byte(content), 0o600); err != nil {
		return m, err
	}
	found, cancel := context.WithTimeoutCause(ctx, foundTimeout, fmt.Errorf("its API server has not answered for %s", foundTimeout))
	defer cancel()
	if m.URL, err = k.answers(found, m.Kubeconfig); err != nil {
		return m, fmt.Errorf("%s: %w: %s", name, err, k.removal(name))
	}
	return m, k.loadImage(name)
}

// removal is the remedy where a cluster is beyond repair.
func (k *Kind) removal(name string) string {
	return fmt.Sprintf("look at it with `docker logs %s-control-plane`, or remove it with `kind delete cluster --name %s` and run muster up again", k.ClusterName(name), k.ClusterName(name))
}

// revive starts the nodes of a cluster that have stopped, and says whether there were
// any.
func (k *Kind) revive(ctx context.Context, name string) (revived bool, err error) {
	nodes, err := k.machines.Nodes(k.ClusterName(name))
	if err != nil {
		return false, fmt.Errorf("%s: list its nodes: %s", name, engineOutput(err))
	}
	for _, node := range nodes {
		if k.machines.Running(k.ClusterName(name), node) {
			continue
		}
		if err := k.machines.Restart(ctx, node); err != nil {
			return false, fmt.Errorf("%s: its node %s has stopped and does not start: %w: %s", name, node, err, k.removal(name))
		}
		revived = true
	}
	return revived, nil
}

// loadImage puts the image into the nodes that don't have it.
func (k *Kind) loadImage(name string) error {
	if k.image == nil {
		return nil
	}
	nodes, err := k.machines.Nodes(k.ClusterName(name))
	if err != nil {
		return fmt.Errorf("%s: list its nodes: %s", name, engineOutput(err))
	}
	for _, node := range nodes {
		if k.machines.ImageID(k.ClusterName(name), node, k.image.Name) == k.image.ID {
			continue
		}
		r, w := io.Pipe()
		go func() { w.CloseWithError(k.image.Archive(w)) }()
		err := k.machines.Load(k.ClusterName(name), node, r)
		_ = r.CloseWithError(errors.New("no more is read"))
		if err != nil {
			return fmt.Errorf("%s: load the image %s into its node %s: %s: look whether the disk of the container engine is full",
				name, k.image.Name, node, engineOutput(err))
		}
	}
	return nil
}

// Gateway is the address of this machine that the pods of a cluster reach.
func (k *Kind) Gateway(name string) (string, error) {
	nodes, err := k.machines.Nodes(k.ClusterName(name))
	if err == nil && len(nodes) == 0 {
		err = errors.New("it has none")
	}
	if err != nil {
		return "", fmt.Errorf("%s: list its nodes: %w", name, err)
	}
	return k.machines.Gateway(k.ClusterName(name), nodes[0])
}

// Stop removes the cluster: one in containers does not come back with its data.
func (k *Kind) Stop(_ context.Context, name string) error {
	kubeconfig := kubeconfigOf(filepath.Join(k.dir, name))
	if err := k.provider.Delete(k.ClusterName(name), kubeconfig); err != nil {
		return fmt.Errorf("%s: kind cannot delete the cluster: %s", name, engineOutput(err))
	}
	for _, file := range []string{kubeconfig, k.making(name)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
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
