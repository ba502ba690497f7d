package registration

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// publish writes an identity as files, for other programs that are to reach the
// hub as the agent does. The agent itself reads only the Secret, so it goes on
// without.
func (r *Registration) publish(id identity.Identity) {
	if r.Dir == "" {
		return
	}
	data, err := id.SecretData()
	delete(data, muster.PlaceKey) // the agent's own
	if err == nil {
		err = writeFiles(r.Dir, data)
	}
	if err != nil {
		r.Log.Warn("cannot write the agent's identity as files: make the folder of --hub-kubeconfig-dir writable", "dir", r.Dir, "err", err)
	}
}

// writeFiles puts each file in its place whole, so that readers never find a
// part of one. Other files stay.
func writeFiles(dir string, data map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if err := atomicfile.Write(filepath.Join(dir, name), data[name], 0o600); err != nil {
			return err
		}
	}
	return nil
}
