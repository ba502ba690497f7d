package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"

	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
)

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
