package crds_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

// A definition without a row would not be installed, and its kind not be known to
// clients; a row without a definition would name a kind that no server has.
func TestEveryDefinitionIsInTheTableOfKindsAndBack(t *testing.T) {
	listed := map[string][]kinds.Kind{}
	for _, k := range kinds.Wire() {
		if file := k.Definition(); file != "" {
			listed[file] = append(listed[file], k)
		}
	}
	there := sets.New[string]()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".yaml" {
			return err
		}
		there.Insert(filepath.ToSlash(file))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for file := range listed {
		if !there.Has(file) {
			t.Errorf("%s is in the table of runtime/api/kinds, and there is no such definition: write it with hack/generate-api.sh", file)
		}
	}
	for file := range there {
		rows := listed[file]
		if len(rows) == 0 {
			t.Errorf("no row of the table in runtime/api/kinds has the definition %s: add one", file)
			continue
		}
		compare(t, file, rows)
	}
}

// compare holds the rows of a definition against it.
func compare(t *testing.T, file string, rows []kinds.Kind) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	var versions, defined []string
	for _, v := range crd.Spec.Versions {
		defined = append(defined, v.Name)
	}
	for _, k := range rows {
		versions = append(versions, k.Version)
		object, list := reflect.TypeOf(k.Object).Elem(), reflect.TypeOf(k.List).Elem()
		if k.Group != crd.Spec.Group || k.Kind != crd.Spec.Names.Kind || k.Resource != crd.Spec.Names.Plural || string(k.Scope.Name()) != scope(crd) {
			t.Errorf("%s: the table says %s, resource %s, scope %s", file, k.GroupVersionKind, k.Resource, k.Scope.Name())
		}
		if object.Name() != k.Kind || list.Name() != crd.Spec.Names.ListKind || !strings.HasSuffix(object.PkgPath(), "/"+k.Version) || list.PkgPath() != object.PkgPath() {
			t.Errorf("%s: the types of %s are %s and %s", file, k.GroupVersionKind, object, list)
		}
	}
	slices.Sort(versions)
	slices.Sort(defined)
	if !slices.Equal(versions, defined) {
		t.Errorf("%s has the versions %v, the table %v", file, defined, versions)
	}
}

// scope is a definition's scope as REST mappers name it.
func scope(crd *apiextensionsv1.CustomResourceDefinition) string {
	if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		return "namespace"
	}
	return "root"
}
