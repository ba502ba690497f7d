terraform import muster_manifest_work.web paris/web
