terraform import muster_access_request.ci team-a/paris-0123456789
