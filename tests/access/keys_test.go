package access

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// oddNames has users with odd names get into a cluster.
func oddNames(t *testing.T, m *member) {
	for _, user := range oddUsers() {
		testkit.Eventually(t, func() error {
			code, _, body := kubeconfigBy(t, hub.Admin, "odd", user)
			if code != http.StatusOK {
				return fmt.Errorf("the hub answers %d %s for %q", code, body, user)
			}
			config, err := clientcmd.Load(body)
			testkit.Must(t, err)
			if len(config.Contexts) != 1 || config.Contexts[user+"@"+m.name] == nil {
				t.Fatalf("the kubeconfig of %q has the contexts %v", user, config.Contexts)
			}
			access, err := clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{CurrentContext: user + "@" + m.name}).ClientConfig()
			testkit.Must(t, err)
			may(t, access, "team-a-odd")
			who := &authenticationv1.SelfSubjectReview{}
			testkit.Must(t, testfleet.Client(t, access).Create(t.Context(), who))
			if want := useraccess.CommonName(hubID(t), user); who.Status.UserInfo.Username != want || len(who.Status.UserInfo.Groups) != 2 {
				t.Errorf("%q is %+v in the cluster, want %s", user, who.Status.UserInfo, want)
			}
			return nil
		})
	}
}

// noneInTheStore looks for the keys of a kubeconfig, and its tokens, in all files of
// the hub: the store, and so each snapshot of it, has them encrypted only.
func noneInTheStore(t *testing.T, kubeconfig handed) {
	secrets := map[string][]byte{}
	for name, config := range kubeconfig.configs {
		if config.BearerToken != "" {
			secrets["the token for "+name] = []byte(config.BearerToken)
			continue
		}
		block, _ := pem.Decode(config.KeyData)
		if block == nil {
			t.Fatalf("the key for %s is %d bytes that are not PEM", name, len(config.KeyData))
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			key, err = x509.ParseECPrivateKey(block.Bytes)
		}
		testkit.Must(t, err)
		raw, err := key.(*ecdsa.PrivateKey).Bytes()
		testkit.Must(t, err)
		lines := strings.Split(string(config.KeyData), "\n")
		secrets["the key's bytes"], secrets["the key's bytes in base64"] = raw, []byte(base64.StdEncoding.EncodeToString(raw))
		secrets["the key in PEM"] = []byte(lines[1])
		secrets["the key in PEM in base64"] = []byte(base64.StdEncoding.EncodeToString(config.KeyData))[40:120]
	}
	if len(secrets) < 5 {
		t.Fatalf("there are only %d secrets to look for", len(secrets))
	}
	stored := false
	dir := filepath.Dir(hub.kubeconfig)
	testkit.Must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for what, secret := range secrets {
			if bytes.Contains(text, secret) {
				t.Errorf("%s is in %s", what, strings.TrimPrefix(path, dir))
			}
		}
		if strings.HasSuffix(path, ".wal") && bytes.Contains(text, []byte("secrets/"+muster.AccessKeyNamespace+"/")) {
			stored = true
		}
		return nil
	}))
	if !stored {
		t.Error("no key is in the store at all: the search is not to be trusted")
	}
	for what, secret := range secrets {
		if strings.Contains(hub.log(), string(secret)) {
			t.Errorf("%s is in the hub's log", what)
		}
	}
}
