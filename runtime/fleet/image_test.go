package fleet

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// staticProgram is a file that is a program for this machine and needs no
// libraries, as far as its header tells.
func staticProgram(t *testing.T) string {
	t.Helper()
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phentsize: 56, Shentsize: 64,
	}
	var content bytes.Buffer
	if err := binary.Write(&content, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "muster")
	if err := os.WriteFile(path, content.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImageHoldsTheProgramAndDescribesIt(t *testing.T) {
	program := staticProgram(t)
	image, err := NewImage(program, "example.org/x:1")
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := image.Archive(&archive); err != nil {
		t.Fatal(err)
	}
	files := untar(t, archive.Bytes())
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
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(untar(t, layer)["muster"], content) {
		t.Error("/muster is not the program")
	}
	var config struct {
		Architecture, OS string
		RootFS           struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	if want := digest(layer); !slices.Equal(config.RootFS.DiffIDs, []string{want}) || config.OS != "linux" || config.Architecture != runtime.GOARCH {
		t.Errorf("configuration %+v, want the layer %q", config, want)
	}
	if want := digest(files[manifest[0].Config]); image.ID != want {
		t.Errorf("ID %s, want %s", image.ID, want)
	}
}

func TestWhatIsNoProgramForContainersIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("\xcf\xfa\xed\xfe of another system"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := NewImage(file, "x"); err == nil || !strings.Contains(err.Error(), "none for Linux") {
		t.Errorf("got %v", err)
	}
	if _, err := NewImage("/bin/sh", "x"); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("a program that needs libraries: got %v", err)
	}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
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
