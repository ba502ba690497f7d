// Package chaos breaks what a fleet runs on, processes, networks, disks, identities, while
// users write, and checks that nothing is lost, doubled, or in another cluster.
//
//   - TestNoFaultLosesAnything (lab_test.go) injects faults at random, -faults of them, and
//     replays a run by its -seed, with one hub and with three that share an etcd. What goes
//     wrong is in faults_test.go, link_test.go, clock_test.go and store_test.go, what users
//     write in writes_test.go, clouds_test.go and terraform_test.go, what has to come of it
//     in model_test.go.
//   - TestAFleetOutlivesItsProcesses (chaos_test.go) kills parts of the quickstart.
package chaos
