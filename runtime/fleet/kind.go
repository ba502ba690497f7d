package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
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

// machines are what is used of the container engine beside kind: the containers
// that are the nodes of a cluster.
type machines interface {
	// Nodes names the nodes of a cluster of kind, running or not.
	Nodes(kindName string) ([]string, error)
	// Running reports whether a node's container runs.
	Running(kindName, node string) bool
	// Restart starts a node's container that has stopped.
	Restart(ctx context.Context, node string) error
	// ImageID is what the node has under an image's name; "" for nothing.
	ImageID(kindName, node, image string) string
	// Load puts an archive of an image into a node.
	Load(kindName, node string, archive io.Reader) error
	// Gateway is the IPv4 address by which a node reaches this machine.
	Gateway(kindName, node string) (string, error)
}

// kindMachines asks kind and the engine's own command.
type kindMachines struct{ provider *cluster.Provider }

func (m kindMachines) node(kindName, name string) (nodes.Node, error) {
	all, err := m.provider.ListInternalNodes(kindName)
	if err != nil {
		return nil, err
	}
	for _, n := range all {
		if n.String() == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("there is no node %s", name)
}

func (m kindMachines) Nodes(kindName string) ([]string, error) {
	all, err := m.provider.ListInternalNodes(kindName)
	var names []string
	for _, n := range all {
		names = append(names, n.String())
	}
	return names, err
}

func (m kindMachines) Running(kindName, name string) bool {
	n, err := m.node(kindName, name)
	return err == nil && n.Command("true").Run() == nil
}

func (m kindMachines) Restart(ctx context.Context, name string) error {
	var failures []string
	for _, engine := range engines() {
		out, err := exec.CommandContext(ctx, engine, "start", name).CombinedOutput()
		if err == nil {
			return nil
		}
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		failures = append(failures, strings.Join(strings.Fields(fmt.Sprintf("%s start %s: %s", engine, name, out)), " "))
	}
	return errors.New(strings.Join(failures, "; "))
}

// engines are the commands that kind looks for, in its order, or the only one that
// the environment allows it.
func engines() []string {
	if chosen := os.Getenv("KIND_EXPERIMENTAL_PROVIDER"); chosen != "" {
		return []string{chosen}
	}
	return []string{"docker", "nerdctl", "finch", "podman"}
}

func (m kindMachines) ImageID(kindName, name, image string) string {
	n, err := m.node(kindName, name)
	if err != nil {
		return ""
	}
	id, err := nodeutils.ImageID(n, image)
	if err != nil {
		return "" // the node says so of images that it has not
	}
	return id
}

func (m kindMachines) Load(kindName, name string, archive io.Reader) error {
	n, err := m.node(kindName, name)
	if err != nil {
		return err
	}
	return nodeutils.LoadImageArchive(n, archive)
}

func (m kindMachines) Gateway(kindName, name string) (string, error) {
	n, err := m.node(kindName, name)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := n.Command("ip", "-4", "route", "show", "default").SetStdout(&out).Run(); err != nil {
		return "", fmt.Errorf("ask the node %s for its gateway: %s", name, engineOutput(err))
	}
	return gateway(out.String())
}

// gateway finds the address in "default via 172.18.0.1 dev eth0".
func gateway(route string) (string, error) {
	words := strings.Fields(route)
	for i, w := range words {
		if w == "via" && i+1 < len(words) && net.ParseIP(words[i+1]) != nil {
			return words[i+1], nil
		}
	}
	return "", fmt.Errorf("the container network has no IPv4 gateway: its default route is %q", strings.TrimSpace(route))
}
