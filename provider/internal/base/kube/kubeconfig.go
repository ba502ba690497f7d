package kube

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The kubeconfig of a connection: where it is, and which of its entries count.

// paths are the files to read. strict says that each of them has to exist: of a
// list in the notation of KUBECONFIG, kubectl takes those that do.
func (c Connection) paths() (paths []string, strict bool) {
	if len(c.KubeconfigPaths) > 0 {
		return c.KubeconfigPaths, true
	}
	for _, path := range filepath.SplitList(c.KubeconfigPath) {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths, len(paths) == 1
}

func (c Connection) source() string {
	paths, _ := c.paths()
	switch {
	case c.Kubeconfig != "":
		return "the kubeconfig content"
	case len(paths) == 1:
		return c.describeFile(paths[0])
	case len(paths) > 1:
		return fmt.Sprintf("the kubeconfig files %q%s", paths, c.origin())
	default:
		return fmt.Sprintf("host %q", c.Host)
	}
}

func (c Connection) describeFile(path string) string {
	return fmt.Sprintf("kubeconfig file %q%s", path, c.origin())
}

func (c Connection) origin() string {
	if c.Origin == "" {
		return ""
	}
	return " of " + c.Origin
}

// isPath reports whether what should be the content of a file looks like its
// path.
func isPath(content string) bool {
	return strings.Contains(content, "/") && !strings.ContainsAny(content, "\n{:")
}

// base is the kubeconfig; empty without one.
func (c Connection) base() (*clientcmdapi.Config, error) {
	if c.Kubeconfig != "" {
		base, err := clientcmd.Load([]byte(c.Kubeconfig))
		if err != nil && isPath(c.Kubeconfig) {
			return nil, fmt.Errorf("read the kubeconfig content: %q is the path of a file and not its content; name "+
				"it in kubeconfig_path, or read it with file()", c.Kubeconfig)
		}
		if err != nil {
			return nil, fmt.Errorf("read the kubeconfig content: it is not a kubeconfig: %w", err)
		}
		return base, nil
	}
	paths, strict := c.paths()
	if len(paths) == 0 {
		return clientcmdapi.NewConfig(), nil
	}
	var (
		found   []string
		missing error
	)
	for _, path := range paths {
		path, err := expandHome(path)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); err != nil {
			missing = fmt.Errorf("read %s: %w; check the path, or that whatever writes the file has run",
				c.describeFile(path), err)
			if strict {
				return nil, missing
			}
			continue
		}
		found = append(found, path)
	}
	if len(found) == 0 {
		return nil, missing
	}
	base, err := (&clientcmd.ClientConfigLoadingRules{Precedence: found, WarnIfAllMissing: false}).Load()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.source(), err)
	}
	return base, nil
}

// entries are copies of the kubeconfig's cluster and user that the connection
// chooses; empty ones where only a host is set.
func (c Connection) entries(base *clientcmdapi.Config) (*clientcmdapi.Cluster, *clientcmdapi.AuthInfo, error) {
	name := c.Context
	if name == "" {
		name = base.CurrentContext
	}
	if paths, _ := c.paths(); len(paths) == 0 && c.Kubeconfig == "" && c.Context+c.ContextCluster+c.ContextUser != "" {
		return nil, nil, fmt.Errorf("%s is alone, and context, config_context_cluster and config_context_auth_info "+
			"choose in a kubeconfig; remove them, or name a kubeconfig in place of the host", c.source())
	}
	chosen := &clientcmdapi.Context{}
	switch context, ok := base.Contexts[name]; {
	case ok:
		chosen = context.DeepCopy()
	case c.Context != "" || (c.Host == "" && (c.ContextCluster == "" || c.ContextUser == "")):
		return nil, nil, missing(c.source(), "context", name, slices.Collect(maps.Keys(base.Contexts)), "context")
	}
	if c.ContextCluster != "" {
		chosen.Cluster = c.ContextCluster
	}
	if c.ContextUser != "" {
		chosen.AuthInfo = c.ContextUser
	}
	cluster, user := &clientcmdapi.Cluster{}, &clientcmdapi.AuthInfo{}
	switch entry, ok := base.Clusters[chosen.Cluster]; {
	case ok:
		cluster = entry.DeepCopy()
	case chosen.Cluster != "":
		return nil, nil, missing(c.source(), "cluster", chosen.Cluster, slices.Collect(maps.Keys(base.Clusters)),
			"config_context_cluster")
	}
	switch entry, ok := base.AuthInfos[chosen.AuthInfo]; {
	case ok:
		user = entry.DeepCopy()
	case chosen.AuthInfo != "" && !c.hasCredentials():
		return nil, nil, missing(c.source(), "user", chosen.AuthInfo, slices.Collect(maps.Keys(base.AuthInfos)),
			"config_context_auth_info")
	}
	return cluster, user, nil
}

// Render writes a kubeconfig whose only cluster, user and context have this name.
// The connection has to name a host.
func (c Connection) Render(name, namespace string) (string, error) {
	cluster, user := &clientcmdapi.Cluster{}, &clientcmdapi.AuthInfo{}
	if err := c.overrideCluster(cluster); err != nil {
		return "", err
	}
	c.overrideUser(user)
	if user.Exec != nil {
		user.Exec.InteractiveMode = clientcmdapi.IfAvailableExecInteractiveMode // kubectl may have a terminal
	}
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: user},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: namespace}},
		CurrentContext: name,
	})
	if err != nil {
		return "", fmt.Errorf("write the kubeconfig: %w", err)
	}
	return string(text), nil
}

// missing tells that a kubeconfig lacks an entry, and which ones it has. attribute
// is where another one can be chosen.
func missing(source, kind, name string, names []string, attribute string) error {
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return fmt.Errorf("read %s: it has no %ss", source, kind)
	case name == "":
		return fmt.Errorf("read %s: it has no current %s; set %s to one of %s", source, kind, attribute,
			strings.Join(names,
				", "))
	default:
		return fmt.Errorf("read %s: it has no %s %q; it has %s", source, kind, name, strings.Join(names, ", "))
	}
}

func expandHome(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("expanding %q: %w; write the path out", path, err)
	}
	return filepath.Join(home, rest), nil
}
