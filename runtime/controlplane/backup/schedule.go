package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
)

// The name of a scheduled backup has the time when it was begun, in UTC.
const (
	scheduledPrefix, scheduledSuffix = "hub-", ".backup"
	scheduledTime                    = "20060102T150405Z"

	// minEvery is how often backups may be made.
	minEvery = time.Minute
)

// Schedule makes backups of a hub while it runs.
type Schedule struct {
	// Dir is the folder for the backups, of this hub alone. Other files in it stay as they
	// are.
	Dir string
	// Every is the time from one backup to the next, a minute or more.
	Every time.Duration
	// Keep is how many backups stay; older ones are deleted.
	Keep int
	// To are those who can open them.
	To []age.Recipient
	// Program is what the backups say that they were written by.
	Program string
}

// Validate checks a schedule for the hub whose data directory is dir.
func (s *Schedule) Validate(dir string) error {
	if s.Every < minEvery {
		return fmt.Errorf("--backup-every %s is too short: give %s or more", s.Every, minEvery)
	}
	if s.Keep < 1 {
		return fmt.Errorf("--backup-keep %d keeps no backup: give 1 or more", s.Keep)
	}
	data, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(s.Dir)
	if err != nil {
		return err
	}
	if folder == data || strings.HasPrefix(folder, data+string(filepath.Separator)) {
		return fmt.Errorf("--backup-dir %q is in the data directory, and would be lost with it: "+
			"give another folder, best on another disk", s.Dir)
	}
	info, err := os.Stat(folder)
	if err == nil && !info.IsDir() {
		err = errors.New("it is a file")
	}
	if err != nil {
		return fmt.Errorf("--backup-dir %q can't be used: %w: make the folder, for the hub's user alone", s.Dir, err)
	}
	return nil
}

// Run makes a backup of the hub whose data directory is dir whenever one is due, until
// ctx ends. One that fails is tried again, and logged.
func (s *Schedule) Run(ctx context.Context, clk clock.Clock, dir string, log logr.Logger) {
	s.removeUnfinished()
	failing := retry.New(clk, retry.Restart(5*time.Minute))
	for ctx.Err() == nil {
		due, err := s.due(clk.Now())
		if err == nil && due > 0 {
			retry.Sleep(ctx, clk, due, nil)
			continue
		}
		if err == nil {
			err = s.once(ctx, clk, dir, log)
		}
		if err == nil {
			failing.Reset()
		} else if ctx.Err() == nil {
			failures.Inc()
			log.Error(err, "cannot make a backup, trying again", "dir", s.Dir)
			failing.Wait(ctx, nil)
		}
	}
}

// due returns after how long the next backup is due.
func (s *Schedule) due(now time.Time) (time.Duration, error) {
	all, err := s.made()
	if err != nil || len(all) == 0 {
		return 0, err
	}
	last := timeOf(all[len(all)-1])
	lastSuccess.Set(float64(last.Unix()))
	return min(last.Add(s.Every).Sub(now), s.Every), nil
}

func (s *Schedule) once(ctx context.Context, clk clock.Clock, dir string, log logr.Logger) error {
	began := clk.Now().UTC()
	name := filepath.Join(s.Dir, scheduledPrefix+began.Format(scheduledTime)+scheduledSuffix)
	if err := WriteFile(ctx, name, dir, s.Program, began, s.To...); err != nil {
		return err
	}
	log.Info("the hub is backed up", "file", name)
	all, err := s.made()
	if err != nil {
		return err
	}
	for _, old := range all[:max(0, len(all)-s.Keep)] {
		if err := os.Remove(filepath.Join(s.Dir, old)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("delete an old backup: %w", err)
		}
	}
	return nil
}

// removeUnfinished removes what a hub has left that was killed while it made a backup.
func (s *Schedule) removeUnfinished() {
	// It fails for wrong patterns only.
	left, _ := filepath.Glob(filepath.Join(s.Dir, "."+scheduledPrefix+"*"+scheduledSuffix+"-*"))
	for _, file := range left {
		_ = os.Remove(file) // which the next backup would find out, too
	}
}

// made lists the files of the backups that are there, the oldest first.
func (s *Schedule) made() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("look for backups: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && !timeOf(e.Name()).IsZero() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// timeOf is when a scheduled backup was begun; zero is that of another file.
func timeOf(name string) time.Time {
	text, ok := strings.CutPrefix(name, scheduledPrefix)
	text, isBackup := strings.CutSuffix(text, scheduledSuffix)
	at, err := time.Parse(scheduledTime, text)
	if !ok || !isBackup || err != nil {
		return time.Time{}
	}
	return at
}

var (
	lastSuccess = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "muster_backup_last_success_timestamp_seconds",
		Help: "When the newest scheduled backup of the hub was begun, in seconds since 1970.",
	})
	failures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "muster_backup_failures_total",
		Help: "How many attempts to make a scheduled backup of the hub have failed.",
	})
)

func init() { metrics.Registry.MustRegister(lastSuccess, failures) }
