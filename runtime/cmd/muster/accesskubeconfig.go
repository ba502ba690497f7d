package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

func newAccessKubeconfigCommand() *cobra.Command {
	var f accessFlags
	k := kubeconfigFlags{}
	cmd := &cobra.Command{
		Use:   "kubeconfig --cloud NAMESPACE/NAME",
		Short: "Write a kubeconfig for the clusters of a logical cloud",
		Long: `Writes a kubeconfig with a context USER@CLUSTER for each cluster of a logical cloud,
in the cloud's namespace. It holds no secret: kubectl calls "muster access credential",
which asks the hub for a short-lived credential and renews it in time.

With --embed it holds certificates and keys, or tokens, in place of the plugin; it then
ends with them. Where the logical cloud has the hub make the keys (keyPolicy HubMade),
the kubeconfig is the hub's own, which has them in any case; the command waits until
all clusters have answered.

An existing file is only replaced with --force.`,
		Example: `  muster access kubeconfig --cloud team-a/prod --output prod.kubeconfig
  muster access kubeconfig --cloud team-a/prod --cluster paris --cluster rome > two.kubeconfig
  muster access kubeconfig --cloud team-a/prod --embed --ttl 1h --output ci.kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			s, err := f.session(cmd)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			return k.write(ctx, cmd, s)
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&k.clusters, "cluster", nil, "only these clusters (default all that the cloud's placements select)")
	flags.StringVarP(&k.output, "output", "o", "", "file to write (default the standard output)")
	flags.BoolVar(&k.embed, "embed", false, "put credentials into the kubeconfig, in place of the plugin; needs --output, or --output - for the standard output")
	flags.BoolVar(&k.force, "force", false, "replace an existing file")
	flags.BoolVar(&k.wait, "wait", true, "with keys that the hub makes: wait until all clusters have answered")
	return cmd
}

// kubeconfigFlags say what kubeconfig is written, and where.
type kubeconfigFlags struct {
	clusters           []string
	output             string
	embed, force, wait bool
}

func (k *kubeconfigFlags) write(ctx context.Context, cmd *cobra.Command, s *accessSession) error {
	cloud, err := s.cloud(ctx)
	if err != nil {
		return err
	}
	secret := k.embed || (cloud != nil && cloud.Spec.Access.KeyPolicy == v1alpha1.KeyHubMade)
	if secret && k.output == "" {
		return errors.New("the kubeconfig holds keys: say where it goes with --output FILE, or --output - for the standard output")
	}
	if err := k.fresh(); err != nil {
		return err
	}
	var text []byte
	if cloud != nil && cloud.Spec.Access.KeyPolicy == v1alpha1.KeyHubMade {
		text, err = s.hubMade(ctx, k.wait)
	} else {
		var config *clientcmdapi.Config
		if config, err = k.own(ctx, s, cloud); err == nil {
			text, err = clientcmd.Write(*config)
		}
	}
	if err != nil {
		return err
	}
	if k.output == "" || k.output == "-" {
		_, err = cmd.OutOrStdout().Write(text)
		return err
	}
	return atomicfile.Write(k.output, text, 0o600)
}

// fresh refuses to replace a file that nobody has said may be replaced.
func (k *kubeconfigFlags) fresh() error {
	if k.output != "" && k.output != "-" && !k.force {
		if _, err := os.Stat(k.output); err == nil {
			return fmt.Errorf("%s exists already: --force replaces it, or choose another --output", k.output)
		}
	}
	return nil
}

// own is a kubeconfig with keys of one's own.
func (k *kubeconfigFlags) own(
	ctx context.Context, s *accessSession, cloud *v1alpha1.LogicalCloud,
) (*clientcmdapi.Config, error) {
	clusters := k.clusters
	var err error
	if len(clusters) == 0 {
		if clusters, err = s.clusters(ctx, cloud); err != nil {
			return nil, err
		}
	}
	// Side by side, so that a cluster that is silent holds up no other.
	kept, errs := make([]keptCredential, len(clusters)), make([]error, len(clusters))
	var asking sync.WaitGroup
	for i, name := range clusters {
		asking.Go(func() { kept[i], errs[i] = s.cached(ctx, name) })
	}
	asking.Wait()
	var entries []useraccess.Entry
	var failed []error
	for i, name := range clusters {
		if errs[i] != nil {
			failed = append(failed, errs[i])
			continue
		}
		entry := kept[i].Entry()
		if !k.embed {
			entry.Auth = clientcmdapi.AuthInfo{Exec: s.plugin(name)}
		}
		entries = append(entries, entry)
	}
	if len(failed) > 0 {
		return nil, errors.Join(append(failed, fmt.Errorf("%d of %d clusters can't be reached; name the others with --cluster to go on without them", len(failed), len(clusters)))...)
	}
	namespace := ""
	if cloud != nil {
		namespace = cloud.Spec.Namespace.Name
	}
	return useraccess.Config(entries, namespace), nil
}

// plugin is how kubectl calls this program for a credential.
func (s *accessSession) plugin(of string) *clientcmdapi.ExecConfig {
	f := s.flags
	args := []string{"access", "credential", "--kubeconfig", s.kubeconfig, "--cloud", f.cloud, "--cluster", of}
	for _, flag := range [][2]string{{"--context", f.hub.context}, {"--user", f.user}, {"--mode", f.mode}} {
		if flag[1] != "" {
			args = append(args, flag[0], flag[1])
		}
	}
	if f.ttl > 0 {
		args = append(args, "--ttl", f.ttl.String())
	}
	return &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: program(), Args: args, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		InstallHint: "muster gets the credentials: install it, or write the kubeconfig again with \"muster access kubeconfig\" where it is.",
	}
}

// hubMade is the kubeconfig that the hub has made. Until all clusters have answered,
// the hub says which are missing.
func (s *accessSession) hubMade(ctx context.Context, wait bool) ([]byte, error) {
	transport, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return nil, fmt.Errorf("reach the hub %s: %w", s.config.Host, err)
	}
	said := ""
	for {
		status, after, body, err := s.ask(ctx, transport)
		switch {
		case err != nil:
			return nil, endOf(ctx, fmt.Errorf("get the kubeconfig of logical cloud %q: %w", s.flags.cloud, err), said)
		case status == http.StatusOK:
			return body, nil
		case status != http.StatusAccepted:
			return nil, fmt.Errorf("get the kubeconfig of logical cloud %q: %s", s.flags.cloud, messageOf(body, status))
		}
		missing := messageOf(body, status)
		if !wait {
			return nil, fmt.Errorf("the kubeconfig is not finished: %s; --wait waits for it", missing)
		}
		if missing != said {
			said = missing
			_, _ = fmt.Fprintln(s.progress, "waiting: "+missing)
		}
		select {
		case <-ctx.Done():
			return nil, endOf(ctx, ctx.Err(), said)
		case <-time.After(after):
		}
	}
}

// maxKubeconfig bounds what is read of the hub's answer: 1,000 clusters have 10 MB.
const maxKubeconfig = 64 << 20

// ask asks the hub for the kubeconfig once. after is when to ask again.
func (s *accessSession) ask(ctx context.Context, transport *http.Client) (status int, after time.Duration, body []byte, err error) {
	base, _, err := rest.DefaultServerUrlFor(s.config)
	if err != nil {
		return 0, 0, nil, err
	}
	at := base.JoinPath("/apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, "namespaces", s.flags.namespace, "logicalclouds", s.flags.cloudName, "kubeconfig")
	if s.flags.user != "" {
		query := at.Query()
		query.Set("user", s.flags.user)
		at.RawQuery = query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return 0, 0, nil, err
	}
	response, err := transport.Do(request)
	if err != nil {
		return 0, 0, nil, err
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(io.LimitReader(response.Body, maxKubeconfig)); err != nil {
		return 0, 0, nil, err
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		seconds = 1
	}
	return response.StatusCode, time.Duration(seconds) * time.Second, body, nil
}

// messageOf is what the hub says in an answer that is no kubeconfig.
func messageOf(body []byte, status int) string {
	var answer struct {
		Message string `json:"message"`
		Missing []struct {
			Name    string `json:"name"`
			Message string `json:"message"`
		} `json:"missing"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return fmt.Sprintf("the hub answers %d %s: %s", status, http.StatusText(status), strings.TrimSpace(string(body)))
	}
	var names []string
	for _, m := range answer.Missing {
		text := m.Name
		if m.Message != "" {
			text += " (" + m.Message + ")"
		}
		names = append(names, text)
	}
	if len(names) > 0 {
		return "missing are " + strings.Join(names, ", ")
	}
	if answer.Message != "" {
		return answer.Message
	}
	return fmt.Sprintf("the hub answers %d %s", status, http.StatusText(status))
}
