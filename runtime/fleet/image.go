package fleet

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
)

// Image is an image with nothing but a program, /muster: what the Dockerfile
// makes, without a build, a base or a registry.
type Image struct {
	// Name is the image's name with its tag.
	Name string
	// ID is what container engines call its content: the digest of its
	// configuration.
	ID string

	program  string
	config   []byte
	layer    int64 // the size of its one layer
	manifest []byte
}

// NewImage is an image of the program in a file, which has to be one for Linux
// that needs no libraries. It reads the file once; WriteTo does so again.
func NewImage(program, name string) (*Image, error) {
	architecture, err := architectureOf(program)
	if err != nil {
		return nil, err
	}
	i := &Image{Name: name, program: program}
	sum := sha256.New()
	if i.layer, err = i.writeLayer(sum); err != nil {
		return nil, fmt.Errorf("read the program %s: %w", program, err)
	}
	i.config, err = json.Marshal(map[string]any{
		"architecture": architecture,
		"os":           "linux",
		"config":       map[string]any{"User": "65532:65532", "Entrypoint": []string{"/muster"}, "Cmd": []string{"--help"}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum.Sum(nil))}},
	})
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(i.config)
	i.ID = "sha256:" + hex.EncodeToString(id[:])
	i.manifest, err = json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	return i, err
}

// architectureOf says for what a program is built, by the name that images use.
func architectureOf(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", fmt.Errorf("the program %s is none for Linux, which containers run (this is %s): %w", program, runtime.GOOS, err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", fmt.Errorf("the program %s needs the libraries of this machine, which are in no image: build it with CGO_ENABLED=0", program)
		}
	}
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	}
	return "", fmt.Errorf("the program %s is for %s, for which there are no images: use one for amd64 or arm64", program, f.Machine)
}

// Archive writes the image in the form of `docker save`, which all container
// engines load.
func (i *Image) Archive(w io.Writer) error {
	archive := tar.NewWriter(w)
	for _, f := range []struct {
		name    string
		content []byte
	}{{"manifest.json", i.manifest}, {"config.json", i.config}} {
		if err := writeFile(archive, f.name, 0o644, int64(len(f.content)), bytes.NewReader(f.content)); err != nil {
			return err
		}
	}
	if err := archive.WriteHeader(&tar.Header{Name: "layer.tar", Mode: 0o644, Size: i.layer, Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	if _, err := i.writeLayer(archive); err != nil {
		return fmt.Errorf("write the program %s into an image: %w", i.program, err)
	}
	return archive.Close()
}

// writeLayer writes the image's files, and returns how much that was.
func (i *Image) writeLayer(w io.Writer) (int64, error) {
	f, err := os.Open(i.program)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	counted := &counter{to: w}
	layer := tar.NewWriter(counted)
	if err := writeFile(layer, "muster", 0o755, info.Size(), f); err != nil {
		return 0, err
	}
	err = layer.Close()
	return counted.n, err
}

func writeFile(w *tar.Writer, name string, mode, size int64, content io.Reader) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: size, Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := io.CopyN(w, content, size)
	return err
}

// counter counts what is written through it.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}
