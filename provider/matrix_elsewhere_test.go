package provider_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The columns of the matrix, for resources that have no row in it.
const (
	ofLife      = "created, planned empty, changed and back, imported, planned on recorded states"
	ofEdits     = "edited outside, by another field manager"
	ofDeletion  = "deleted outside"
	ofHolding   = "held by a finalizer"
	ofTimeout   = "a wait that times out"
	ofUnknown   = "unknown inputs"
	noCell      = "none: "
	keepsNoting = noCell + "it only waits, and has no object of its own"
)

// elsewhere are resources that need more than an object of the hub: for each column
// the test that shows it, or why there is none.
func elsewhere() map[string]map[string]string {
	waits := func(timeout, deletion string) map[string]string {
		return map[string]string{
			ofLife: "TestAccMatrixOfAFleet", ofEdits: keepsNoting, ofHolding: keepsNoting,
			ofDeletion: deletion, ofTimeout: timeout, ofUnknown: "TestAccMatrixOfAFleet",
		}
	}
	return map[string]map[string]string{
		"muster_klusterlet": {
			ofLife: "TestAccMatrixOfAFleet", ofEdits: "TestAccKlusterletRestoresEachOfItsObjects",
			ofDeletion: "TestAccKlusterletReturnsAfterADeletionOfItsNamespace",
			ofHolding:  "TestAccKlusterletWaitsForWorks",
			ofTimeout:  "TestAccErrorsSayWhyThereWasNoAnswer", ofUnknown: "TestAccPlanWithAConnectionThatIsNotKnownYet",
		},
		"muster_cluster_registration":           waits("TestAccClusterRegistration", "TestAccClusterRegistration"),
		"muster_manifest_work_wait":             waits("TestAccManifestWorkWait", "TestAccMatrixOfAFleet"),
		"muster_manifest_work_replica_set_wait": waits("TestAccManifestWorkReplicaSetWait", "TestAccManifestWorkReplicaSetWaitGoesWithIt"),
		"muster_logical_cloud_wait":             waits("TestAccWaits", "TestAccMatrixOfAFleet"),
		"muster_access_request": {
			ofLife: "TestAccMatrixOfAFleet", ofEdits: noCell + "nobody can change a request",
			ofDeletion: "TestAccRequestLives", ofHolding: "TestAccRequestIsHeld",
			ofTimeout: "TestAccRefusedRequestSaysWhy", ofUnknown: "TestAccMatrixOfAFleet",
		},
	}
}

// Each cell names a test that there is.
func TestTheCellsElsewhereAreTested(t *testing.T) {
	found := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range function.FindAllStringSubmatch(string(text), -1) {
			found[match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	columns := []string{ofLife, ofEdits, ofDeletion, ofHolding, ofTimeout, ofUnknown}
	slices.Sort(columns)
	for resource, cells := range elsewhere() {
		if has := slices.Sorted(maps.Keys(cells)); !slices.Equal(has, columns) {
			t.Errorf("%s has the cells %q, want %q", resource, has, columns)
		}
		for column, test := range cells {
			if !strings.HasPrefix(test, noCell) && !found[test] {
				t.Errorf("%s, %s: there is no test %s", resource, column, test)
			}
		}
	}
}
