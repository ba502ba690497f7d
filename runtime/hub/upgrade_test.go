package hub_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

// A hub starts on the data directory of each earlier format, converts it, and keeps a copy of
// what was there. testdata has a directory of each, of a hub with a Secret, a cluster, a
// cluster set and a work.
func TestDataOfEarlierFormats(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join("testdata", "format-*.tar.gz"))
	testkit.Must(t, err)
	if len(archives) == 0 {
		t.Fatal("there are no directories of earlier formats")
	}
	for _, archive := range archives {
		t.Run(filepath.Base(archive), func(t *testing.T) {
			dir := t.TempDir()
			if out, err := exec.Command("tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
				t.Fatalf("unpack %s: %v: %s", archive, err, out)
			}
			if !stored(t, dir, "of-an-older-hub") {
				t.Fatal("the test does not find the Secret of the older hub")
			}
			for range 2 { // it is converted once
				secured(t, dir, hub.Options{EncryptedResources: []string{"secrets"}}, func(admin *rest.Config) {
					secret, work := &corev1.Secret{}, &workv1.ManifestWork{}
					cluster, set := &clusterv1.ManagedCluster{}, &clusterv1beta2.ManagedClusterSet{}
					for at, into := range map[client.ObjectKey]client.Object{
						{Namespace: "default", Name: "kept"}: secret, {Name: "paris"}: cluster, {Name: "europe"}: set,
						{Namespace: "paris", Name: "w"}: work,
					} {
						testkit.Must(t, clientFor(t, admin).Get(t.Context(), at, into))
					}
					if got := string(secret.Data["a"]); got != "of-an-older-hub" || !cluster.Spec.AcceptsClient() ||
						len(work.Spec.Workload.Manifests) != 1 {
						t.Errorf("the hub has %q, %v, %v", got, cluster.Spec, work.Spec)
					}
				})
			}
			if stored(t, dir, "of-an-older-hub") {
				t.Error("the Secret of the older hub is not encrypted")
			}
			before := filepath.Join(dir, "before-format-2")
			if !stored(t, before, "of-an-older-hub") {
				t.Error("the copy is not of what was there before")
			}
			for _, name := range []string{"pki/ca.key", "pki/service-account.key", "format.json"} {
				if _, err := os.Stat(filepath.Join(before, name)); err != nil {
					t.Errorf("the copy: %v", err)
				}
			}
		})
	}
}
