package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
)

func newAccessCredentialCommand() *cobra.Command {
	var f accessFlags
	var of string
	cmd := &cobra.Command{
		Use:   "credential --cloud NAMESPACE/NAME --cluster CLUSTER",
		Short: "Print a credential for kubectl, as its credential plugin",
		Long: `Prints an ExecCredential (client.authentication.k8s.io/v1) for one cluster of a
logical cloud. The kubeconfigs of "muster access kubeconfig" call it. It keeps the
credential in the user's cache folder, for its owner alone, and asks for another when
a fifth of its life is left, or when the cluster does not take the token any more.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if of == "" {
				return fmt.Errorf("say which cluster: --cluster")
			}
			s, err := f.session(cmd)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			kept, err := s.cached(ctx, of)
			if err != nil {
				return err
			}
			text, err := json.Marshal(kept.execCredential())
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), string(text))
			}
			return err
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&of, "cluster", "", "one of the cloud's clusters")
	return cmd
}

// keptCredential is a credential in the cache.
type keptCredential struct {
	useraccess.Credential
	// Request is the access request, and Since when it was made.
	Namespace, Request string
	Since              time.Time
}

// renewAt is when a fifth of the credential's life is left.
func (k keptCredential) renewAt() time.Time {
	return k.NotAfter.Add(-k.NotAfter.Sub(k.Since) / 5)
}

func (k keptCredential) execCredential() *clientauthenticationv1.ExecCredential {
	expires := metav1.NewTime(k.renewAt())
	return &clientauthenticationv1.ExecCredential{
		TypeMeta: metav1.TypeMeta{APIVersion: clientauthenticationv1.SchemeGroupVersion.String(), Kind: "ExecCredential"},
		Status: &clientauthenticationv1.ExecCredentialStatus{
			ExpirationTimestamp: &expires, Token: k.Token, ClientCertificateData: string(k.Certificate), ClientKeyData: string(k.Key),
		},
	}
}

// cacheDir is the folder with the credentials.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the folder for credentials: %w; set HOME or XDG_CACHE_HOME", err)
	}
	dir = filepath.Join(dir, "muster", "access")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder for credentials: %w", err)
	}
	return dir, nil
}

// cachePath is where the credential for a cluster is kept. All that makes a difference
// to it is in the name.
func (s *accessSession) cachePath(of string) (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	f := s.flags
	sum := sha256.Sum256([]byte(strings.Join([]string{s.config.Host, s.kubeconfig, f.hub.context, f.cloud, of, f.user, f.mode, f.ttl.String()}, "\x00")))
	return filepath.Join(dir, hex.EncodeToString(sum[:16])+".json"), nil
}

// cached is the credential for a cluster: the one in the cache, or a new one. Of
// several that ask at the same moment one asks the hub, and the others wait for it.
func (s *accessSession) cached(ctx context.Context, of string) (keptCredential, error) {
	path, err := s.cachePath(of)
	if err != nil {
		return keptCredential{}, err
	}
	if kept, ok := readKept(path, time.Now()); ok && (s.unreachable || kept.isTaken(ctx)) {
		return kept, nil
	}
	unlock, err := lock(ctx, path+".lock")
	if err != nil {
		return keptCredential{}, err
	}
	defer unlock()
	if kept, ok := readKept(path, time.Now()); ok && (s.unreachable || kept.isTaken(ctx)) {
		return kept, nil
	}
	id, err := s.hubID(ctx)
	if err != nil {
		return keptCredential{}, err
	}
	user, err := s.user(ctx)
	if err != nil {
		return keptCredential{}, err
	}
	cloud, err := s.cloud(ctx)
	if err != nil {
		return keptCredential{}, err
	}
	began := time.Now()
	credential, request, err := s.get(ctx, useraccess.Ask{
		Namespace: s.flags.namespace, Cloud: s.flags.cloudName, Cluster: of, User: user, HubID: id, Mode: s.flags.modeFor(cloud), Lifetime: s.flags.ttl,
	})
	if err != nil {
		return keptCredential{}, err
	}
	kept := keptCredential{Credential: credential, Namespace: request.Namespace, Request: request.Name, Since: began}
	text, err := json.Marshal(kept)
	if err == nil {
		err = atomicfile.Write(path, text, 0o600)
	}
	return kept, err
}

// readKept reads a credential that is good for a while. What can't be read is as good
// as nothing: another one is asked for.
func readKept(path string, now time.Time) (kept keptCredential, ok bool) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		return kept, false
	}
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &kept) != nil {
		return keptCredential{}, false
	}
	return kept, now.Before(kept.renewAt()) && (kept.Token != "" || len(kept.Key) > 0)
}

// tokenCheckTimeout is how long the check of a token may hold up a command.
const tokenCheckTimeout = 3 * time.Second

// isTaken reports whether a credential still counts in its cluster. A token ends early
// with its service account, as when the hub has moved the accounts; the cluster is
// asked. A certificate does not. A cluster that gives no answer does not count.
func (k keptCredential) isTaken(ctx context.Context) bool {
	if k.Token == "" {
		return true
	}
	config := &rest.Config{
		Host: k.Endpoint.URL, BearerToken: k.Token, TLSClientConfig: rest.TLSClientConfig{CAData: k.Endpoint.CABundle}, Timeout: tokenCheckTimeout,
	}
	if proxy, err := url.Parse(os.Getenv(proxyVariable)); err == nil && proxy.Host != "" {
		config.Proxy = http.ProxyURL(proxy)
	}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return true
	}
	defer transport.CloseIdleConnections()
	// Every user may read which groups of APIs there are.
	at := strings.TrimSuffix(k.Endpoint.URL, "/") + "/apis"
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, at, http.NoBody)
	if err != nil {
		return true
	}
	response, err := transport.Do(request)
	if err != nil {
		return true
	}
	_ = response.Body.Close()
	return response.StatusCode != http.StatusUnauthorized
}

// lockRetry is how often a lock that somebody has is tried again.
const lockRetry = 100 * time.Millisecond

// lock keeps others out until unlock is called, or the process ends.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the credential: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock the credential: %w", err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(errors.New("another muster asks for the same credential and has got no answer in time"), f.Close())
		case <-time.After(lockRetry):
		}
	}
}

// forget removes the credential of a request from the cache.
func forget(namespace, request string) {
	dir, err := cacheDir()
	if err != nil {
		return
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, path := range paths {
		var kept keptCredential
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &kept) == nil && kept.Namespace == namespace && kept.Request == request {
			_ = os.Remove(path)
		}
	}
}
