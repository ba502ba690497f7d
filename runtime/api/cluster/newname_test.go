package cluster_test

import (
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// constants are the texts that constants of the API's packages, and of those that install
// a hub, stand for, by their names.
func constants(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, root := range []string{"..", "../../hub/install"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			files, set := []*ast.File{}, token.NewFileSet()
			paths, _ := filepath.Glob(filepath.Join(path, "*.go"))
			for _, p := range paths {
				if strings.HasSuffix(p, "_test.go") {
					continue
				}
				f, err := parser.ParseFile(set, p, nil, parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				files = append(files, f)
			}
			// What a package imports is not looked at: its own constants don't need it.
			config := types.Config{Importer: importer.Default(), Error: func(error) {}, FakeImportC: true, IgnoreFuncBodies: true}
			info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
			_, _ = config.Check(path, set, files, info)
			for ident, o := range info.Defs {
				if c, ok := o.(*types.Const); ok && c.Val().Kind() == constant.String {
					found[path+"."+ident.Name] = constant.StringVal(c.Val())
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// A new cluster gets no name that is a namespace of the hub, nor one by which its groups
// and users would look like something else. Both follow from the constants: one that is
// new and has no entry fails here.
func TestNewNamesCoverAllConstants(t *testing.T) {
	all, namespaces, segments := constants(t), 0, 0
	for of, value := range all {
		if strings.HasSuffix(of, "Namespace") && len(validation.IsDNS1123Label(value)) == 0 {
			namespaces++
			if cluster.NewName(value) == nil {
				t.Errorf("a cluster can be called %q, which is the namespace %s", value, of)
			}
		}
		for _, prefix := range []string{cluster.UserPrefix, "open-cluster-management:"} {
			rest, ok := strings.CutPrefix(value, prefix)
			segment, _, _ := strings.Cut(rest, ":")
			if !ok || len(validation.IsDNS1123Label(segment)) > 0 {
				continue
			}
			segments++
			if cluster.NewName(segment) == nil {
				t.Errorf("a cluster can be called %q, which is a part of %s, %q", segment, of, value)
			}
		}
	}
	if namespaces < 6 || segments < 6 || all["../muster.AccessKeyNamespace"] == "" {
		t.Errorf("%d namespaces and %d names were found among %d constants", namespaces, segments, len(all))
	}
	for _, name := range []string{"cluster", "addon", "bootstrap", "managedcluster", "muster-access-keys", "muster-imports", "kube-system", "work"} {
		if err := cluster.NewName(name); err == nil || !strings.Contains(err.Error(), "choose another name") {
			t.Errorf("a new cluster called %q: %v", name, err)
		}
	}
	for _, name := range []string{"paris", "cluster1", "local-cluster", "global", "agent", "kube-prod"} {
		if err := cluster.NewName(name); err != nil {
			t.Errorf("%q is refused: %v", name, err)
		}
	}
	// A cluster that has one of the newer names already keeps its rights.
	for _, name := range []string{"cluster", "addon", "bootstrap", "muster-access-keys"} {
		if cluster.IsReserved(name) {
			t.Errorf("a cluster called %q loses its rights", name)
		}
	}
}
