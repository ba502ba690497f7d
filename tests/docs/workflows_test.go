package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pinned is an action at a commit, with its version in a comment.
var pinned = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*$`)

// TestActionsArePinned looks at the actions that workflows use: a tag can be moved to
// other code, a commit can't.
func TestActionsArePinned(t *testing.T) {
	var files []string
	for _, pattern := range []string{".github/workflows/*.yml", "examples/ci/github-actions/*.yml"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%d workflows are %s: %v", len(found), pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(read(t, name)) {
			_, action, ok := strings.Cut(strings.TrimSpace(line), "uses: ")
			if ok && !pinned.MatchString(action) {
				t.Errorf("%s uses %s: name the commit, and its version in a comment", name, action)
			}
		}
	}
}

// TestBaseImagesArePinned looks at the images that ours are built on, for the same reason.
func TestBaseImagesArePinned(t *testing.T) {
	base := regexp.MustCompile(`(?m)^FROM (?:--\S+ )?(\S+)`)
	digest := regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
	stages := map[string]bool{"source": true}
	for _, name := range []string{"Dockerfile", "Dockerfile.release"} {
		found := base.FindAllStringSubmatch(read(t, name), -1)
		if len(found) == 0 {
			t.Errorf("%s has no base image", name)
		}
		for _, image := range found {
			if !stages[image[1]] && !digest.MatchString(image[1]) {
				t.Errorf("%s is built on %s: name the digest, too", name, image[1])
			}
		}
	}
}
