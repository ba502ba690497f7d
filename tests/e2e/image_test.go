package e2e

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// imageArchive is an image with nothing but a program, /muster, in the form
// that `docker save` writes and container engines load: what the Dockerfile
// makes, without a build and without pulling a base.
func imageArchive(program, name string) ([]byte, error) {
	binary, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	layer, err := tarball(file{"muster", binary, 0o755})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"User": "65532:65532", "Entrypoint": []string{"/muster"}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	return tarball(file{"manifest.json", manifest, 0o644}, file{"config.json", config, 0o644}, file{"layer.tar", layer, 0o644})
}

type file struct {
	name    string
	content []byte
	mode    int64
}

func tarball(files ...file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func TestImageArchiveHoldsTheProgramAndDescribesIt(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("the program"), 0o755); err != nil {
		t.Fatal(err)
	}
	archive, err := imageArchive(program, "example.org/x:1")
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, archive)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || !slices.Equal(manifest[0].RepoTags, []string{"example.org/x:1"}) || len(manifest[0].Layers) != 1 {
		t.Fatalf("manifest %+v", manifest)
	}
	layer := files[manifest[0].Layers[0]]
	if got := string(untar(t, layer)["muster"]); got != "the program" {
		t.Errorf("/muster holds %q", got)
	}
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(layer)
	if want := "sha256:" + hex.EncodeToString(sum[:]); !slices.Equal(config.RootFS.DiffIDs, []string{want}) {
		t.Errorf("layers %q, want %q", config.RootFS.DiffIDs, want)
	}
}

func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGateway(t *testing.T) {
	for route, want := range map[string]string{
		"default via 172.18.0.1 dev eth0 \n":   "172.18.0.1",
		"default via 10.89.0.1 proto dhcp x\n": "10.89.0.1",
		"default dev eth0 scope link":          "",
		"default via":                          "",
		"":                                     "",
	} {
		if got, err := gateway(route); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v, want %q", route, got, err, want)
		}
	}
}
