package hubtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// joinTimeout is how long a cluster may take to become available.
const joinTimeout = time.Minute

// join registers the clusters and waits for them.
func (h *Hub) join(program, dir string) error {
	admin, err := newAdministrator(h.Kubeconfig)
	if err != nil {
		return err
	}
	for _, c := range h.Clusters {
		bootstrap := filepath.Join(dir, c.Name+"-bootstrap.kubeconfig")
		if err := admin.invite(c.Name, bootstrap); err != nil {
			return fmt.Errorf("register %s with the hub: %w", c.Name, err)
		}
		agent, err := testhub.StartAgent(program, c.Name, bootstrap, c.Kubeconfig)
		if err != nil {
			return err
		}
		h.agents = append(h.agents, &Server{Name: "the agent of " + c.Name, process: agent})
	}
	for i, c := range h.Clusters {
		if err := testkit.Poll(joinTimeout, func() error { return admin.available(c.Name) }); err != nil {
			return fmt.Errorf("wait for %s to join: after %s: %w\n%s", c.Name, joinTimeout, err, h.agents[i].Log())
		}
	}
	return nil
}

// administrator speaks to the hub with all rights.
type administrator struct {
	config *rest.Config
	client *http.Client
}

func newAdministrator(path string) (*administrator, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read the hub's kubeconfig: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	return &administrator{config, client}, nil
}

// invite accepts a cluster on the hub and writes a bootstrap kubeconfig for it.
func (a *administrator) invite(name, bootstrap string) error {
	random := make([]byte, 11)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	id, secret := hex.EncodeToString(random[:3]), hex.EncodeToString(random[3:])
	err := errors.Join(
		a.create("/apis/cluster.open-cluster-management.io/v1/managedclusters", map[string]any{
			"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
			"metadata": map[string]any{"name": name},
			"spec":     map[string]any{"hubAcceptsClient": true},
		}),
		a.create("/api/v1/namespaces/kube-system/secrets", map[string]any{
			"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
			"metadata": map[string]any{"name": "bootstrap-token-" + id},
			"stringData": map[string]any{
				"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
				"auth-extra-groups": cluster.BoundBootstrapGroup(name),
				"expiration":        time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
			},
		}))
	if err != nil {
		return err
	}
	text, err := kubeconfig.Config{Cluster: "hub", User: "bootstrap", Server: a.config.Host, CAData: a.config.CAData, Token: id + "." + secret}.YAML()
	if err != nil {
		return err
	}
	return os.WriteFile(bootstrap, text, 0o600)
}

// available says what keeps a cluster from being available.
func (a *administrator) available(name string) error {
	var object struct {
		Status struct {
			Conditions []struct{ Type, Status, Reason, Message string }
		}
	}
	if err := a.do(http.MethodGet, "/apis/cluster.open-cluster-management.io/v1/managedclusters/"+name, nil, &object); err != nil {
		return err
	}
	for _, condition := range object.Status.Conditions {
		if condition.Type == cluster.ConditionAvailable && condition.Status == "True" {
			return nil
		}
	}
	return fmt.Errorf("it is not available: %+v", object.Status.Conditions)
}

func (a *administrator) create(path string, object any) error {
	return a.do(http.MethodPost, path, object, nil)
}

// do sends a request and reads the answer.
func (a *administrator) do(method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, a.config.Host+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, read)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(read, into)
}
