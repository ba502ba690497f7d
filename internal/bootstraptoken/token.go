// Package bootstraptoken has the tokens that agents register with, in the form of
// Kubernetes' own, and reads where a hub says that it is.
package bootstraptoken

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
)

// Token is a bootstrap token.
type Token struct {
	// ID is its public half, which names it, and Secret the other one.
	ID, Secret string
	// Groups are those that its holder is in, separated by commas.
	Groups      string
	Description string
	// Expires is when the hub stops taking the token; zero is never.
	Expires time.Time
}

// New makes a token up.
func New(groups, description string, expires time.Time) (Token, error) {
	made, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return Token{}, fmt.Errorf("make a bootstrap token: %w", err)
	}
	id, secret, _ := strings.Cut(made, ".")
	return Token{ID: id, Secret: secret, Groups: groups, Description: description, Expires: expires}, nil
}

// String is the token as it is presented.
func (t Token) String() string { return t.ID + "." + t.Secret }

// SecretName is the name of the Secret of the token with an ID.
func SecretName(id string) string { return bootstrapapi.BootstrapTokenSecretPrefix + id }

// Object is the Secret that makes the token valid.
func (t Token) Object() *corev1.Secret {
	data := map[string][]byte{
		bootstrapapi.BootstrapTokenIDKey:               []byte(t.ID),
		bootstrapapi.BootstrapTokenSecretKey:           []byte(t.Secret),
		bootstrapapi.BootstrapTokenUsageAuthentication: []byte("true"),
		bootstrapapi.BootstrapTokenExtraGroupsKey:      []byte(t.Groups),
	}
	if t.Description != "" {
		data[bootstrapapi.BootstrapTokenDescriptionKey] = []byte(t.Description)
	}
	if !t.Expires.IsZero() {
		data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(t.Expires.UTC().Format(time.RFC3339))
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: SecretName(t.ID),
			Labels: map[string]string{"app": "cluster-manager"}, // by which clusteradm finds tokens
		},
		Type: corev1.SecretTypeBootstrapToken, Data: data,
	}
}

// Parse reads a token back. A time that can't be read counts as none.
func Parse(secret *corev1.Secret) Token {
	text := func(key string) string {
		if written, ok := secret.StringData[key]; ok {
			return written
		}
		return string(secret.Data[key])
	}
	t := Token{
		ID: text(bootstrapapi.BootstrapTokenIDKey), Secret: text(bootstrapapi.BootstrapTokenSecretKey),
		Groups:      text(bootstrapapi.BootstrapTokenExtraGroupsKey),
		Description: text(bootstrapapi.BootstrapTokenDescriptionKey),
	}
	if expires, err := time.Parse(time.RFC3339, text(bootstrapapi.BootstrapTokenExpirationKey)); err == nil {
		t.Expires = expires
	}
	return t
}

// ErrNoServer says that a hub does not publish where agents reach it.
var ErrNoServer = errors.New("the hub does not say where agents reach it: its ConfigMap kube-public/cluster-info " +
	"names no server")

// Server is where the hub is and who vouches for it, by the content of the config map
// kube-public/cluster-info.
func Server(info map[string]string) (url string, ca []byte, err error) {
	config, err := clientcmd.Load([]byte(info["kubeconfig"]))
	if err != nil {
		return "", nil, fmt.Errorf("read where the hub is from ConfigMap %s/%s: it holds no kubeconfig: %w",
			metav1.NamespacePublic, hubinfo.ClusterInfo, err)
	}
	for _, c := range config.Clusters { // there is one
		if c.Server != "" {
			return c.Server, c.CertificateAuthorityData, nil
		}
	}
	return "", nil, ErrNoServer
}
