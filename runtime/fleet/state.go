package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
)

// state is what a fleet remembers from one run to the next. Its methods may be
// called side by side.
type state struct {
	path string

	mu      sync.Mutex
	content stateContent
}

type stateContent struct {
	// HubPort is the port that the hub had last.
	HubPort int `json:"hubPort,omitempty"`
	// HubAddress is where the hub listened last.
	HubAddress hubAddress `json:"hubAddress,omitzero"`
	// HubSettings are what the hub was started with last.
	HubSettings hubSettings `json:"hubSettings,omitzero"`
	// Clusters are all clusters that were ever started and not removed since.
	Clusters map[string]clusterState `json:"clusters,omitempty"`
}

type clusterState struct {
	Driver string `json:"driver"`
	// Port is the port that its API server had last, 0 when the driver does not
	// choose it.
	Port int `json:"port,omitempty"`
}

func readState(path string) (*state, error) {
	s := &state{path: path, content: stateContent{Clusters: map[string]clusterState{}}}
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is known of the fleet: %w", err)
	}
	if err := json.Unmarshal(b, &s.content); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w: delete it; clusters then get new ports", path, err)
	}
	if s.content.Clusters == nil {
		s.content.Clusters = map[string]clusterState{}
	}
	return s, nil
}

func (s *state) hubPort() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content.HubPort
}

func (s *state) hubAddress() hubAddress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content.HubAddress
}

func (s *state) hubSettings() hubSettings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content.HubSettings
}

func (s *state) setHub(a hubAddress, settings hubSettings) error {
	return s.change(func(c *stateContent) { c.HubAddress, c.HubSettings = a, settings })
}

func (s *state) cluster(name string) (clusterState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.content.Clusters[name]
	return c, ok
}

// clusters are the names of all clusters, in order.
func (s *state) clusters() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.content.Clusters), byNumber)
}

// byNumber puts cluster2 before cluster10.
func byNumber(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return slices.Compare([]byte(a), []byte(b))
}

func (s *state) setHubPort(port int) error {
	return s.change(func(c *stateContent) { c.HubPort = port })
}

func (s *state) setCluster(name string, cluster clusterState) error {
	return s.change(func(c *stateContent) { c.Clusters[name] = cluster })
}

func (s *state) removeCluster(name string) error {
	return s.change(func(c *stateContent) { delete(c.Clusters, name) })
}

func (s *state) change(f func(*stateContent)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := json.Marshal(s.content)
	if err != nil {
		return err
	}
	f(&s.content)
	after, err := json.Marshal(s.content)
	if err != nil || string(before) == string(after) {
		return err
	}
	if err := atomicfile.Write(s.path, append(after, '\n'), 0o600); err != nil {
		return fmt.Errorf("remember the fleet: %w", err)
	}
	return nil
}
