package devcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
)

const (
	// tokenLifetime is what kubelets ask for.
	tokenLifetime = 3607 * time.Second
	// tokenRenewal is the part of a token's life after which it is renewed.
	tokenRenewal = 0.8
)

func (p *agentPod) tokenFile() string { return filepath.Join(p.dir, "token") }

// writeToken puts a fresh token of the pod's service account into its file. It
// ends with the pod, as the tokens of real pods do.
func (p *agentPod) writeToken(ctx context.Context) (renew time.Time, err error) {
	account := p.pod.Spec.ServiceAccountName
	now := p.clock.Now()
	request, err := p.client.CoreV1().ServiceAccounts(p.pod.Namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: ptr.To(int64(tokenLifetime / time.Second)),
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.pod.Name, UID: p.pod.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("get a token of service account %q: %w", account, err)
	}
	if err := write(p.tokenFile(), []byte(request.Status.Token)); err != nil {
		return time.Time{}, err
	}
	life := request.Status.ExpirationTimestamp.Sub(now)
	return now.Add(time.Duration(tokenRenewal * float64(life))), nil
}

// writeVolumes makes the folders of the pod's Secret volumes hold what the
// Secrets do.
func (p *agentPod) writeVolumes() error {
	for _, v := range p.volumes {
		secret, err := p.secrets.Secrets(p.pod.Namespace).Get(v.secret)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("read secret %q for volume %q: %w", v.secret, v.name, err)
		}
		var data map[string][]byte
		if err == nil {
			data = secret.Data
		} else if !v.optional {
			return fmt.Errorf("volume %q: secret %q not found in namespace %s: create it", v.name, v.secret, p.pod.Namespace)
		}
		files, missing := v.files(data)
		if missing != "" {
			return fmt.Errorf("volume %q: secret %q has no key %q: add it", v.name, v.secret, missing)
		}
		if err := writeFolder(filepath.Join(p.volumesDir(), v.name), files); err != nil {
			return fmt.Errorf("volume %q: %w", v.name, err)
		}
	}
	return nil
}

// writeFolder makes dir hold the files, and no others at its top.
func writeFolder(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := write(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, ok := files[e.Name()]; !ok && !e.IsDir() {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func write(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(name, content, 0o600)
}
